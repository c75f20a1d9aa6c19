"""``mfm train``: MindFormers' Trainer on a YAML, with our datasets registered and the data state kept."""

import argparse
import os
import sys
from pathlib import Path

from mindformers_megatron.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm train``."""
    parser.add_argument("--config", type=Path, required=True, help="MindFormers' YAML")
    parser.add_argument("--register-path", type=Path, help="folder of classes that the YAML names by auto_register")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="CHECK",
        help="let data and model differ in this (vocab_size, eod_id, pad_id, bos_id, seq_length, "
        "max_position_embeddings, tokenizer), with a warning; may be given several times",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="settings over those of the YAML, as runner_config.epochs=2"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the training; returns 0."""
    output_dir = _output_dir(args.config, args.overrides)
    if output_dir:
        # MindFormers opens its log files when it is imported, and knows no other way to tell it where.
        os.environ.setdefault("LOCAL_DEFAULT_PATH", output_dir)
    if args.register_path:
        os.environ["REGISTER_PATH"] = str(args.register_path)
        sys.path.append(str(args.register_path))
    try:
        from mindformers_megatron.loader import launch
    except ImportError as error:
        raise ConfigError(str(error)) from error
    launch.train(args.config, args.overrides, args.allow)
    return 0


def _output_dir(config: Path, overrides: list[str]) -> str | None:
    import yaml

    found = None
    try:
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
        found = settings.get("output_dir")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError):
        # Said properly when the file is read for good.
        pass
    for override in overrides:
        key, _, value = override.partition("=")
        found = value if key == "output_dir" else found
    return found
