typedef int pc__store_placeholder;
