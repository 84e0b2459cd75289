typedef int pc__pml_placeholder;
