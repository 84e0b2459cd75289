typedef int pc__serve_placeholder;
