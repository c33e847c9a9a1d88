"""Cells of a notebook: their lines, the magics, the page in a frame."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("IPython")

PROGRAM = """
    import json
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    CELLS = [
        "%load_ext floodmark",
        "import torch\\ndef double(x):\\n    return x * 2\\n",
        "%%floodmark step -o a.flood\\nx = torch.zeros(1 << 20)\\ny = double(x)\\nlen(y)",
        "%%floodmark --no-page --nonsense\\npass",
        "%%floodmark\\nlost = torch.zeros(1 << 10)\\n1 / 0",
        "%%estimate est --gpu t4\\nw = torch.zeros(1 << 20, device='cuda')",
        "%unload_ext floodmark\\n",
        "%%floodmark\\n",
    ]
    found = []
    for cell in CELLS:
        with capture_output() as captured:
            result = shell.run_cell(cell, store_history=True)
        found.append({
            "error": result.error_in_exec and type(result.error_in_exec).__name__,
            "text": captured.stdout + captured.stderr,
            "shown": [output.data for output in captured.outputs],
        })
    found.append([row["location"] for row in shell.user_ns["step"].report(by="line")])
    found.append(shell.user_ns["est"].estimate.to_dict()["fits"])
    print("FOUND" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory):
    from support.programs import Programs

    done = Programs(tmp_path_factory.mktemp("notebook")).run(PROGRAM)
    return json.loads(done.stdout.rpartition("FOUND")[2])


def test_lines_are_those_of_cells(cells):
    # In the order of their bytes: lines 2 and 3 of the third cell, of 4 MiB each.
    assert set(cells[8][:2]) == {"cell [3]:2 (<module>)", "cell [2]:3 (double)"}


def test_a_recorded_cell_shows_its_value_a_report_and_the_page(cells):
    assert cells[2]["error"] is None
    value, report, page = cells[2]["shown"]
    assert value["text/plain"] == str(1 << 20)
    assert "cell [2]:3" in report["text/html"]
    assert page["text/html"].startswith("<iframe srcdoc=")
    # The page is in the attribute as a whole.
    assert page["text/html"].count('"') == page["text/html"].replace("&quot;", "").count('"')


def test_a_wrong_option_and_a_failing_cell_are_errors_of_the_cell(cells):
    assert cells[3]["error"] == "UsageError"
    assert "--nonsense" in cells[3]["text"]
    assert cells[4]["error"] == "ZeroDivisionError"
    assert "1 / 0" in cells[4]["text"]


def test_an_estimated_cell_shows_the_verdict(cells):
    assert cells[5]["error"] is None, cells[5]["text"]
    assert cells[9] is True


def test_unloading_removes_the_magics(cells):
    assert "not found" in cells[7]["text"]
