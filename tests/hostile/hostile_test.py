"""Attacks, each a row of inputs.py, formats.py, names.py, writing.py or extremes.py.

usage: hostile_test.py inputs|formats|names|writing|extremes ZPLAN [PART OF A NAME]
"""
import importlib
import sys

from attack import main

if __name__ == "__main__":
    main(importlib.import_module(sys.argv.pop(1)).GROUPS)
