from torchvision._refuse import refusing
from torchvision.transforms import InterpolationMode as InterpolationMode

__getattr__ = refusing(__name__)
