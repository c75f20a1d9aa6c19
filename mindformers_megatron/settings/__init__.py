"""The YAML of a run, read and checked without MindSpore."""
