from __future__ import annotations

import sys
from pathlib import Path

# Importlib mode adds no folder to the path, and these tests share ``folders``.
sys.path.insert(0, str(Path(__file__).parent))
