"""Fixtures of the tests of MLX: the demo model in a directory as mlx-lm reads it."""

import json
import shutil

import pytest


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """The demo model, with its rotary base where this mlx-lm looks for it."""
    pytest.importorskip("mlx_lm")
    from stackmask.integration.demo import demo_model_path

    target = tmp_path_factory.mktemp("mlx") / "demo-mlx"
    shutil.copytree(demo_model_path(), target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"rope_theta": config["rope_parameters"]["rope_theta"]}))
    return target
