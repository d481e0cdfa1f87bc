"""Generators of one or two layers and width 16, written as the library writes its models.

A BART and a T5; for language models also some causal ones, whose weights are large, so that what
they predict depends on all they read.
"""

import torch
from tokenizers import processors

from tests.tiny_tokenizers import byte_level

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def write_tiny_model(folder, kind, texts):
    """Write a model's folder with weights that are the same every time."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = byte_level(texts, 300, SPECIAL)
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    tokenizer.post_processor = processors.TemplateProcessing(
        single={"bart": "<s> $A </s>", "t5": "$A </s>", "opt": "<s> $A"}.get(kind, "$A"),
        special_tokens=[("<s>", ids["<s>"]), ("</s>", ids["</s>"])],
    )
    names = zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(names)).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = _model(kind, ids, tokenizer.get_vocab_size())
    model.save_pretrained(folder)
    return folder


# class, its configuration and settings; a special piece stands for its number
_CAUSAL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_CAUSAL |= {"max_position_embeddings": 128, "bos_token_id": "<s>", "initializer_range": 0.3}
_LLAMA = {"intermediate_size": 32, "num_key_value_heads": 1}
_BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
_BART |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
_BART |= {"max_position_embeddings": 128, "bos_token_id": "<s>"}
_BART |= {"decoder_start_token_id": "</s>", "forced_eos_token_id": "</s>"}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}
_GPT2 |= {"bos_token_id": "<s>", "initializer_range": 0.3}
_BERT = {"intermediate_size": 32, "is_decoder": False}
_OPT = {"ffn_dim": 32, "word_embed_proj_dim": 16, "init_std": 0.3}
MODELS = {
    "bart": ("BartForConditionalGeneration", "BartConfig", _BART),
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5 | {"decoder_start_token_id": "<pad>"}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT2),
    "bert": ("BertLMHeadModel", "BertConfig", _CAUSAL | _BERT),
    "opt": ("OPTForCausalLM", "OPTConfig", _CAUSAL | _OPT),
    # of which a token sees the last 8 only
    "mistral": ("MistralForCausalLM", "MistralConfig", _CAUSAL | _LLAMA | {"sliding_window": 8}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _CAUSAL | _LLAMA),
}


def _model(kind, ids, n_words):
    import transformers

    model, config, settings = MODELS[kind]
    shared = {"vocab_size": n_words, "pad_token_id": "<pad>", "eos_token_id": "</s>"}
    numbers = {name: ids.get(value, value) for name, value in (shared | settings).items()}
    return getattr(transformers, model)(getattr(transformers, config)(**numbers))
