"""Training losses over a batch.

log_probabilities = F.log_softmax(prediction, dim=-1)
return -(torch.softmax(target, dim=-1) * log_probabilities).sum(dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

# each gives `loss`, of the shape of the prediction or without its last axis
_ELEMENTS = {
    "squared": ["loss = (prediction - target).pow(2)"],
    "absolute": ["loss = torch.abs(prediction - target)"],
    "huber": [
        "error = torch.abs(prediction - target)",
        "loss = torch.where(error < 1.0, 0.5 * error * error, error - 0.5)",
    ],
    "library_huber": ['loss = F.huber_loss(prediction, target, reduction="none", delta=0.5)'],
    "log_cosh": ["error = prediction - target", "loss = error + F.softplus(-2.0 * error) - 0.6931"],
    "hinge": ["loss = F.relu(1.0 - prediction * torch.tanh(target))"],
    "squared_hinge": ["loss = torch.clamp(1.0 - prediction * torch.tanh(target), min=0.0).pow(2)"],
    "logistic": ["loss = F.softplus(-prediction * torch.sign(target))"],
    "binary": ['loss = F.binary_cross_entropy_with_logits(prediction, torch.sigmoid(target), reduction="none")'],
    "written_binary": ["label = torch.sigmoid(target)", "loss = F.softplus(prediction) - label * prediction"],
    "focal": [
        "p = torch.sigmoid(prediction)",
        "label = torch.sigmoid(target)",
        "loss = -label * (1.0 - p) ** 2 * torch.log(p + 1e-4) - (1.0 - label) * p**2 * torch.log(1.0 - p + 1e-4)",
    ],
    "quantile": ["error = target - prediction", "loss = torch.maximum(0.9 * error, -0.1 * error)"],
    "poisson": ["loss = torch.exp(torch.clamp(prediction, max=4.0)) - torch.abs(target) * prediction"],
    "gaussian": [
        "variance = F.softplus(target) + 0.1",
        "loss = 0.5 * (torch.log(variance) + prediction.pow(2) / variance)",
    ],
    "charbonnier": ["loss = torch.sqrt((prediction - target).pow(2) + 1e-3)"],
}
_ROWS = {
    "cross_entropy": ["loss = -(torch.softmax(target, dim=-1) * F.log_softmax(prediction, dim=-1)).sum(dim=-1)"],
    "smoothed": [
        "label = 0.9 * torch.softmax(target, dim=-1) + 0.1 / target.shape[-1]",
        "loss = -(label * torch.log_softmax(prediction, dim=-1)).sum(dim=-1)",
    ],
    "divergence": [
        "log_p, log_q = F.log_softmax(target, dim=-1), F.log_softmax(prediction, dim=-1)",
        "loss = (torch.exp(log_p) * (log_p - log_q)).sum(dim=-1)",
    ],
    "symmetric": [
        "log_p, log_q = F.log_softmax(target, dim=-1), F.log_softmax(prediction, dim=-1)",
        "loss = ((torch.exp(log_p) - torch.exp(log_q)) * (log_p - log_q)).sum(dim=-1)",
    ],
    "distilled": [
        "log_p, log_q = F.log_softmax(target / 2.0, dim=-1), F.log_softmax(prediction / 2.0, dim=-1)",
        "loss = 4.0 * (torch.exp(log_p) * (log_p - log_q)).sum(dim=-1)",
    ],
    "cosine": ["loss = 1.0 - F.cosine_similarity(prediction, target, dim=-1)"],
    "dice": [
        "p, label = torch.sigmoid(prediction), torch.sigmoid(target)",
        "loss = 1.0 - 2.0 * (p * label).sum(dim=-1) / (p.sum(dim=-1) + label.sum(dim=-1) + 1e-3)",
    ],
    "z_loss": [
        "top = torch.logsumexp(prediction, dim=-1)",
        "loss = top - (torch.softmax(target, dim=-1) * prediction).sum(dim=-1) + 0.01 * top.pow(2)",
    ],
}
_WEIGHTS = ("loss = loss * self.weight", "loss = loss * torch.sigmoid(target)")
_REDUCE = (
    "return loss.mean(dim=-1)",
    "return loss.sum(dim=-1)",
    "return loss.mean(dim=(1, 2))",
    "return loss",
    "return loss.mean(dim=-1) + 0.1 * loss.amax(dim=-1)",
    "return loss.mean(dim=-1), loss.amax(dim=-1)",
)


def write(draw: Draw) -> str:
    """A loss of elements, weighed and reduced in several ways; or a loss of rows over classes. Some log an accuracy."""
    constants = {"batch_size": draw.choose("batch", (4, 8, 12)), "tokens": draw.choose("tokens", (2, 4, 6, 8))}
    constants["classes"] = draw.choose("classes", (6, 8, 10, 16, 24, 32))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    state: list[str] = []
    if draw.choose("kind", ("elements", "elements", "rows")) == "elements":
        body = list(_ELEMENTS[draw.choose("loss", tuple(_ELEMENTS))])
        if draw.choose("accuracy", (False, False, False, True)):
            body.append("accuracy = ((prediction > 0) == (target > 0)).float().mean(dim=-1)")
        if draw.choose("weighed", (False, True)):
            body.append(draw.choose("weight", _WEIGHTS))
        if "loss = loss * self.weight" in body:
            state.append("self.weight = nn.Parameter(0.5 + torch.rand(classes, dtype=dtype))")
        body.append(draw.choose("reduce", _REDUCE))
    else:
        body = list(_ROWS[draw.choose("loss", tuple(_ROWS))])
        body.append(
            draw.choose(
                "reduce",
                (
                    "return loss",
                    "return loss.mean(dim=-1)",
                    "return loss - loss.mean(dim=0)",
                    "return loss.sum(dim=1) / 2.0",
                ),
            )
        )
    return program_text(
        constants,
        "A loss between predictions and targets.",
        state=state,
        forward=body,
        inputs=["torch.randn(batch_size, tokens, classes, dtype=dtype)"] * 2,
        arguments="prediction, target",
        dtype=dtype,
    )


FAMILY = Family("losses", "losses of predictions against targets", write)
