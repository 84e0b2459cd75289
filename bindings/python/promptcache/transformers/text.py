"""A tokenizer of transformers as the library calls it: bytes to ids and back."""
import threading

NAMES = ("unk_token", "pad_token")


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Text:
    def __init__(self, tokenizer):
        self.tokenizer, self.lock = tokenizer, threading.Lock()  # a call changes its settings

    def tokenize(self, text, special, bos):
        with self.lock:
            return self.tokenizer(text.decode("utf-8"), add_special_tokens=bos,
                                  split_special_tokens=not special,
                                  return_attention_mask=False, verbose=False)["input_ids"]

    def detokenize(self, ids, special):
        with self.lock:
            return self.tokenizer.decode(ids, skip_special_tokens=not special,
                                         clean_up_tokenization_spaces=False).encode("utf-8")

    def template(self, given=None):
        """Its chat template, or the given one; None: it has none, or several of which none is the
        default. The library asks for the texts of BOS and EOS alone, so other special tokens are
        set in front; the line break behind that belongs to it, as blocks are trimmed."""
        template = given or getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("default")
        if not template or "{" not in template:
            return template
        texts = {name: getattr(self.tokenizer, name, None) for name in NAMES if name in template}
        front = "".join(f"{{% set {name} = {quoted(str(text))} %}}"
                        for name, text in texts.items() if text is not None)
        return front + "\n" + template if front else template

    def token(self, name):
        number = getattr(self.tokenizer, name + "_token_id", None)
        return -1 if number is None else number
