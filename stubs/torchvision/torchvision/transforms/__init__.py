from enum import Enum

from torchvision._refuse import refusing


class InterpolationMode(Enum):
    """Real, because importers build tables of its members while they are imported."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


__getattr__ = refusing(__name__)
