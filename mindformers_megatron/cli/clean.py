"""``mfm clean``: cleaning and filtering, document by document."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm clean``."""
    from mindformers_megatron.cli.one_step import add_common_arguments

    add_common_arguments(parser)
    parser.add_argument(
        "--step",
        action="append",
        metavar="STEP",
        help="a step as in a recipe, in order: html, or 'length: {min_characters: 200}' (those of a default recipe)",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    import yaml

    from mindformers_megatron.cli.one_step import run_steps
    from mindformers_megatron.errors import ConfigError

    steps = []
    for text in args.step or ["default"]:
        try:
            steps.append(yaml.safe_load(text))
        except yaml.YAMLError:
            raise ConfigError(f"--step {text!r}: expected a name, or 'name: {{option: value}}'") from None
    return run_steps(args, steps)
