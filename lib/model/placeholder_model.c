typedef int pc__model_placeholder;
