"""MindFormers' own loader, made fit for tests: its C++ helper is compiled beside them, not in the installed package."""

import importlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest


def compiled_mindformers(folder: Path) -> ModuleType:
    """MindFormers' package of blended datasets, with its C++ helper compiled into ``folder``."""
    pybind11 = pytest.importorskip("pybind11")
    if shutil.which("g++") is None:
        pytest.skip("MindFormers' helper is C++ and needs g++")
    package = importlib.import_module("mindformers.dataset.blended_datasets")
    if hasattr(package, "helpers"):
        return package
    target = folder / f"helpers{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = Path(str(package.__file__)).parent / "helpers.cpp"
    includes = [f"-I{folder}" for folder in (sysconfig.get_path("include"), pybind11.get_include())]
    subprocess.run(
        ["g++", "-O3", "-shared", "-std=c++11", "-fPIC", "-w", *includes, str(source), "-o", str(target)], check=True
    )
    name = f"{package.__name__}.helpers"
    spec = importlib.util.spec_from_file_location(name, target)
    assert spec is not None
    assert spec.loader is not None
    helpers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helpers)
    sys.modules[name] = helpers
    package.helpers = helpers
    return package
