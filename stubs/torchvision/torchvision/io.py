from torchvision._refuse import refusing

__getattr__ = refusing(__name__)
