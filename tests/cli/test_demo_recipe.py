"""The demo recipe, as it stands: from raw files in several formats and encodings to a training run, in one command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JAPANESE = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
    "何でも薄暗いじめじめした所で泣いていた事だけは記憶している。\n"
)


@pytest.mark.train
def test_raw_files_become_a_training_run_in_one_command(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for folder in ("pages", "chinese", "japanese"):
        (tmp_path / folder).mkdir()
    for guide in (ROOT / "docs").glob("*.zh-CN.md"):
        chinese = guide.read_text(encoding="utf-8")
        english = guide.with_name(f"{guide.name.split('.')[0]}.md").read_text(encoding="utf-8")
        (tmp_path / "chinese" / f"{guide.stem}.txt").write_text(chinese, encoding="gb18030")
        page = (
            f"<html><head><title>guide</title></head><body><nav>home</nav><main><p>{english}</p></main></body></html>"
        )
        (tmp_path / "pages" / f"{guide.stem}.html").write_text(page, encoding="utf-8")
    (tmp_path / "japanese" / "neko.txt").write_text(JAPANESE * 3, encoding="euc_jp")
    command = [sys.executable, "-m", "mindformers_megatron.cli", "prepare", "configs/recipes/demo.yaml"]
    sources = [f"sources.{name}.paths=[{name}]" for name in ("pages", "chinese", "japanese")]
    done = subprocess.run(
        [*command, *sources, "--train", "--workers", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Training Over" in done.stdout + done.stderr
    values = json.loads((tmp_path / "demo-corpus" / "data_stats.json").read_bytes())
    # The first is the language of most; a guide of little but commands may pass for English.
    assert next(iter(values["languages"]["chinese"])) == "zh"
    assert next(iter(values["languages"]["japanese"])) == "ja"
    assert {corpus["source"] for corpus in values["corpora"] if corpus["split"] == "train"} >= {
        "code",
        "manuals",
        "chinese",
    }
    # The quiz is about what a module of the library says of itself.
    assert values["global_steps"][-1]["sets"][0]["found"] == 1
