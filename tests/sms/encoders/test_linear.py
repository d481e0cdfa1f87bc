"""Linear layers of frozen models, by either library."""

import torch

from sms.encoders.linear import FastLinear, has_onednn, speed_up


def test_model_with_fast_layers_computes_the_same():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(8, 3, bias=False)),
    )
    x = torch.randn(5, 6)
    with torch.inference_mode():
        expected = model(x)
        is_faster = has_onednn(model[0].weight)
        speed_up(model)
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(model(x[None]), expected[None])  # as batches of sequences
    layers = (model[0], model[2][0])
    assert {type(layer) for layer in layers} == {FastLinear if is_faster else torch.nn.Linear}
