"""Losses of pairs and triplets, contrastive losses, regularised and weighted losses.

positive = (anchor - same).pow(2).sum(dim=-1)
negative = (anchor - other).pow(2).sum(dim=-1)
return F.relu(positive - negative + 1.0)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_DISTANCES = {
    "squared": "({0} - {1}).pow(2).sum(dim=-1)",
    "euclidean": "torch.sqrt(({0} - {1}).pow(2).sum(dim=-1) + 1e-6)",
    "absolute": "torch.abs({0} - {1}).sum(dim=-1)",
    "cosine": "1.0 - F.cosine_similarity({0}, {1}, dim=-1)",
    "dot": "-({0} * {1}).sum(dim=-1)",
    "huber": 'F.smooth_l1_loss({0}, {1}, reduction="none").sum(dim=-1)',
}
_TRIPLET = {
    "hinge": ["loss = F.relu(near - far + 1.0)"],
    "soft": ["loss = F.softplus(near - far)"],
    "ratio": ["loss = torch.exp(-far) / (torch.exp(-near) + torch.exp(-far) + 1e-3)"],
    "log_ratio": ["loss = -torch.log(torch.sigmoid(far - near) + 1e-6)"],
    "sum": ["loss = near + F.softplus(2.0 - far)"],
    "squared_hinge": ["loss = torch.clamp(near - far + 0.5, min=0.0) ** 2"],
}
_CONTRASTIVE = {
    "rows": ["loss = torch.logsumexp(scores, dim=-1) - torch.diagonal(scores)"],
    "columns": ["loss = torch.logsumexp(scores, dim=0) - torch.diagonal(scores)"],
    "both": ["loss = torch.logsumexp(scores, dim=-1) + torch.logsumexp(scores, dim=0) - 2.0 * torch.diagonal(scores)"],
    "log_softmax": ["loss = -torch.diagonal(F.log_softmax(scores, dim=-1))"],
    "sigmoid": ["loss = F.softplus(scores).sum(dim=-1) - torch.diagonal(scores)"],
}
_SCORES = {
    "plain": ["scores = torch.matmul(anchor, same.t()) / anchor.shape[-1]"],
    "cosine": ["scores = torch.matmul(F.normalize(anchor, dim=-1), F.normalize(same, dim=-1).t()) * 5.0"],
    "distance": ["scores = -(anchor.unsqueeze(1) - same.unsqueeze(0)).pow(2).sum(dim=-1)"],
}
_ENDS = (
    "loss",
    "loss",
    "loss * loss",
    "loss / (loss.mean() + 1.0)",
    "loss / (1.0 + torch.abs(loss))",
    "loss + 0.01 * anchor.pow(2).sum(dim=-1)",
)
_BEFORE = {
    "nothing": "{0}",
    "unit": "F.normalize({0}, dim=-1)",
    "bounded": "torch.tanh({0})",
    "projected": "torch.matmul({0}, self.projection)",
    "centred": "{0} - {0}.mean(dim=0, keepdim=True)",
}
_PROJECTION = "self.projection = nn.Parameter(torch.randn(features, features) * features**-0.5)"


def write(draw: Draw) -> str:
    """What is done to the vectors; triplets by a distance, or a contrastive loss over all pairs; what is returned."""
    constants = {
        "batch_size": draw.choose("batch", (4, 6, 8, 12, 16)),
        "features": draw.choose("features", (4, 8, 12, 16, 24)),
    }
    end = draw.choose("end", _ENDS)
    if draw.choose("kind", ("triplet", "contrastive")) == "triplet":
        distance = _DISTANCES[draw.choose("distance", tuple(_DISTANCES))]
        body = [f"near = {distance.format('anchor', 'same')}", f"far = {distance.format('anchor', 'other')}"]
        body += _TRIPLET[draw.choose("loss", tuple(_TRIPLET))]
        names = ["anchor", "same", "other"]
    else:
        body = [
            *_SCORES[draw.choose("scores", tuple(_SCORES))],
            *_CONTRASTIVE[draw.choose("contrast", tuple(_CONTRASTIVE))],
        ]
        names = ["anchor", "same"]
    before = draw.choose("before", tuple(_BEFORE))
    first = [f"{name} = {_BEFORE[before].format(name)}" for name in names] if before != "nothing" else []
    return program_text(
        constants,
        "A loss between vectors and their partners.",
        state=[_PROJECTION] if before == "projected" else [],
        forward=[*first, *body, f"return {end}"],
        inputs=["torch.randn(batch_size, features)"] * len(names),
        arguments=", ".join(names),
    )


FAMILY = Family("metric_losses", "triplet and contrastive losses", write)
