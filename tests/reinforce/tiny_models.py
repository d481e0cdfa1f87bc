"""A BART and a T5 of one layer and width 16, written as the library writes its models."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def write_tiny_model(folder, kind, texts):
    """Write a model's folder with weights that are the same every time."""
    from transformers import (
        BartConfig,
        BartForConditionalGeneration,
        PreTrainedTokenizerFast,
        T5Config,
        T5ForConditionalGeneration,
    )

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if kind == "bart" else "$A </s>",
        special_tokens=[("<s>", ids["<s>"]), ("</s>", ids["</s>"])],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    ).save_pretrained(folder)
    shared = {
        "vocab_size": tokenizer.get_vocab_size(),
        "pad_token_id": ids["<pad>"],
        "eos_token_id": ids["</s>"],
    }
    with torch.random.fork_rng():
        torch.manual_seed(7)
        if kind == "bart":
            model = BartForConditionalGeneration(
                BartConfig(
                    **shared, d_model=16, encoder_layers=1, decoder_layers=1,
                    encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
                    decoder_ffn_dim=32, max_position_embeddings=128, bos_token_id=ids["<s>"],
                    decoder_start_token_id=ids["</s>"], forced_eos_token_id=ids["</s>"],
                )
            )  # fmt: skip
        else:
            model = T5ForConditionalGeneration(
                T5Config(
                    **shared, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
                    decoder_start_token_id=ids["<pad>"],
                )
            )  # fmt: skip
    model.save_pretrained(folder)
    return folder
