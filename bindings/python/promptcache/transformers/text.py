"""A tokenizer of transformers as the library calls it: bytes to ids and back."""
import threading


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

    def template(self):
        """Its chat template as it is; None: it has none, or several of which none is the default.
        """
        template = getattr(self.tokenizer, "chat_template", None)
        return template.get("default") if isinstance(template, dict) else template

    def token(self, name):
        number = getattr(self.tokenizer, name + "_token_id", None)
        return -1 if number is None else number
