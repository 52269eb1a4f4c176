from torchvision._refuse import refusing
from torchvision.transforms import InterpolationMode as InterpolationMode
from torchvision.transforms.v2 import functional as functional

__getattr__ = refusing(__name__)
