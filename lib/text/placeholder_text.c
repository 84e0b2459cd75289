typedef int pc__text_placeholder;
