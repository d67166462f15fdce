"""Nothing that is read back from storage is code: no module of the product unpickles."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from rag_eval_assets.storage.catalogue import Catalogue
from rag_eval_assets.storage.parquet import TornFileError
from rag_eval_assets.storage.state import read_json
from tests.storage.test_parquet import NODE, chunk, finished

ROOT = Path(__file__).resolve().parents[2]
MODULES = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"})
CALLS = frozenset({"read_pickle", "allow_pickle", "unsafe_load", "UnsafeLoader", "FullLoader", "full_load", "eval", "exec"})
"""Names that read code from data: of pandas, numpy, PyYAML and Python."""


def unpickling(text: str) -> list[str]:
    """Imports and names in a module's source that read code from data."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if node.module and node.module.split(".")[0] in MODULES else []
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += [name] if name in CALLS else []
            found += [word.arg for word in node.keywords if word.arg in CALLS]
        elif isinstance(node, ast.Attribute) and node.attr in CALLS:
            found.append(node.attr)
    return found


def test_no_module_of_the_product_reads_code_from_data() -> None:
    modules = sorted(path for package in ("ingestion", "rag_eval_assets") for path in (ROOT / package).rglob("*.py"))
    assert len(modules) > 100
    assert {str(path.relative_to(ROOT)): found for path in modules if (found := unpickling(path.read_text()))} == {}


@pytest.mark.parametrize(
    "text",
    ["import pickle", "def f():\n    from joblib import load", "np.load(p, allow_pickle=True)", "pd.read_pickle(p)", "yaml.UnsafeLoader"],
)
def test_what_would_read_code_is_noticed(text: str) -> None:
    assert unpickling(text)


class Ran:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_in_the_place_of_a_table_or_a_cache_is_damage_and_is_not_run(tmp_path: Path) -> None:
    payload = pickle.dumps(Ran(tmp_path / "ran"))
    catalogue = Catalogue(str(tmp_path / "tables"), tmp_path / "state.json")
    path, _ = catalogue.write(NODE, *finished(chunk()))
    path.write_bytes(payload)
    with pytest.raises(TornFileError):
        catalogue.verify(NODE)
    (tmp_path / "state.json").write_bytes(payload)
    assert read_json(tmp_path / "state.json") == {}
    assert not (tmp_path / "ran").exists()
    pickle.loads(payload)  # it would have
    assert (tmp_path / "ran").exists()
