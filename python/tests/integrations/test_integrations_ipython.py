"""A notebook, executed by a kernel: the lines of its cells, the magics, the page in a frame."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from support.checkout import ROOT
from support.programs import PATIENCE

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

#: Run after the cells of the example, in the same kernel.
MORE_CELLS = {
    "lines": "[row['location'] for row in step.report(by='line')]",
    "fits": "est.estimate.to_dict()['fits']",
    "recorded": "%%floodmark after --no-page\nlater = torch.zeros(1 << 20)",
    "devices": "[each['device'] for each in after.trace.summary()['devices']]",
    "wrong option": "%%floodmark --no-page --nonsense\npass",
    "failing": "%%floodmark\nlost = torch.zeros(1 << 10)\n1 / 0",
    "failing estimate": "%%estimate\nlost = torch.zeros(1 << 10, device='cuda')\n1 / 0",
    "out of memory": "%%estimate --gpu t4\ntorch.empty(1 << 40, device='cuda')",
    "unload": "%unload_ext floodmark",
    "unloaded": "%%floodmark\npass",
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cells of `examples/notebook.ipynb` by their first word, and the others by name."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    example = [cell for cell in notebook.cells if cell.cell_type == "code"]
    more = {name: nbformat.v4.new_code_cell(source) for name, source in MORE_CELLS.items()}
    notebook.cells += more.values()
    with pytest.MonkeyPatch.context() as patch:
        # What Jupyter and IPython write stays in the folder of the test.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        nbclient.NotebookClient(
            notebook,
            timeout=PATIENCE,
            startup_timeout=PATIENCE,
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    return {cell.source.split(maxsplit=1)[0]: cell for cell in example} | more


def shown(cell: Any, kind: str = "text/plain") -> list[str]:
    """What a cell displays, its value last unless a magic shows more after it."""
    return [output.data.get(kind, "") for output in cell.outputs if "data" in output]


def error(cell: Any) -> str:
    """The name of the exception that ended a cell, or nothing."""
    return "".join(output.ename for output in cell.outputs if output.output_type == "error")


def text(cell: Any) -> str:
    """All that a cell printed, tracebacks too."""
    parts = [output.get("text", "") for output in cell.outputs]
    return "".join(parts + ["\n".join(output.get("traceback", [])) for output in cell.outputs])


def test_lines_are_those_of_cells(cells):
    lines = ast.literal_eval(shown(cells["lines"])[0])
    assert {"cell [2]:5 (widen)", "cell [3]:4 (<module>)"} <= set(lines)
    assert all(line.startswith(("cell [", "<")) for line in lines), lines


def test_a_recorded_cell_shows_its_value_a_report_and_the_page(cells):
    assert error(cells["%%floodmark"]) == ""
    assert shown(cells["%%floodmark"])[0] == str(2 * 512)
    _, report, page = shown(cells["%%floodmark"], "text/html")
    assert "cell [2]:5" in report
    assert page.startswith("<iframe srcdoc=")
    # The page is in the attribute as a whole.
    assert page.count('"') == page.replace("&quot;", "").count('"')


def test_a_cell_asks_the_recording_again(cells):
    assert "parameter" in shown(cells['step.report(by="category")'], "text/html")[0]


def test_an_estimated_cell_shows_the_verdict(cells):
    assert error(cells["%%estimate"]) == "", text(cells["%%estimate"])
    assert "Fits" in "".join(shown(cells["%%estimate"]))
    assert shown(cells["fits"]) == ["True"]


def test_a_wrong_option_and_a_failing_cell_are_errors_of_the_cell(cells):
    # IPython shows the wrong use of a magic without a traceback.
    assert text(cells["wrong option"]).startswith("UsageError: unrecognized arguments: --nonsense")
    assert error(cells["failing"]) == "ZeroDivisionError"
    assert "1 / 0" in text(cells["failing"])


def test_a_failing_cell_shows_its_report_before_the_traceback(cells):
    outputs = cells["failing"].outputs
    assert [output.output_type for output in outputs][-1] == "error"
    number = cells["failing"].execution_count
    assert f"cell [{number}]:2" in "".join(shown(cells["failing"], "text/html"))
    estimate = cells["failing estimate"]
    assert error(estimate) == "ZeroDivisionError"
    assert "4.000 KiB" in "".join(shown(estimate))
    assert error(cells["out of memory"]) == "OutOfMemoryError"
    assert "Does not fit" in "".join(shown(cells["out of memory"]))


def test_a_cell_is_recorded_after_an_estimate(cells):
    number = cells["recorded"].execution_count
    report = "".join(shown(cells["recorded"], "text/html"))
    assert f"cell [{number}]:2" in report
    assert "4.000 MiB" in report
    assert shown(cells["devices"]) == ["['cpu']"]


def test_unloading_removes_the_magics(cells):
    assert error(cells["unload"]) == ""
    assert "not found" in text(cells["unloaded"])
