typedef int pc__attn_placeholder;
