"""The pytest plugin: tests on a simulated GPU, each in a process of its own."""

from __future__ import annotations

from support.phantoms import needs_cuda_build

pytest_plugins = ["pytester"]
pytestmark = needs_cuda_build

PLUGIN = ["-p", "floodmark.pytest_plugin", "-p", "no:cacheprovider"]


def test_a_test_above_its_limit_fails_with_the_lines_that_did_it(pytester):
    pytester.makepyfile(
        test_memory="""
        import pytest

        @pytest.mark.gpu_memory(limit="100MiB", gpu="rtx4090")
        def test_above():
            import torch
            kept = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")

        @pytest.mark.gpu_memory(limit="300MiB", gpu="rtx4090")
        def test_below():
            import torch
            kept = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
            assert torch.cuda.get_device_name() == "NVIDIA GeForce RTX 4090 (simulated)"

        @pytest.mark.gpu_memory(limit="300MiB", gpu="rtx4090", of="needed")
        def test_with_the_context():
            import torch
            kept = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        """
    )
    done = pytester.runpytest_subprocess(*PLUGIN)
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "209,715,200 B (0.195 GiB) allocated on cuda:0 of NVIDIA GeForce RTX 4090 (simulated), "
            "above the limit of 100MiB",
            "*test_memory.py:6 (test_above)*",
            "*needed on cuda:0*above the limit of 300MiB",
        ]
    )


def test_outcomes_output_and_fixtures_come_back_as_from_here(pytester):
    pytester.makeini("[pytest]\nphantom_gpu = t4\n")
    pytester.makeconftest(
        """
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--word", default="default")

        @pytest.fixture(scope="module")
        def kept():
            yield "kept"
        """
    )
    pytester.makepyfile(
        test_a="""
        import pytest

        def test_plain(kept):
            import sys
            assert "torch" not in sys.modules

        class TestIn:
            @pytest.mark.parametrize("size", [1, 2])
            def test_method(self, phantom_gpu, size, request, kept):
                import torch
                print("said", size, request.config.getoption("--word"))
                assert phantom_gpu.name == "Tesla T4"
                assert torch.cuda.get_device_properties(0).total_memory == phantom_gpu.memory
                assert size == 1

        def test_skipped(phantom_gpu):
            pytest.skip("not today")

        @pytest.mark.xfail(strict=True)
        def test_expected(phantom_gpu):
            assert False

        def test_died(phantom_gpu):
            import os
            os._exit(7)

        @pytest.mark.gpu_memory(20)
        def test_wrong_mark():
            pass

        @pytest.mark.gpu_memory(gpu="h300")
        def test_an_unknown_gpu():
            pass
        """,
        test_b="def test_after(kept):\n    assert kept == 'kept'\n",
    )
    done = pytester.runpytest_subprocess(*PLUGIN, "--word", "told", "-v")
    done.assert_outcomes(passed=3, failed=4, skipped=1, xfailed=1)
    done.stdout.fnmatch_lines(
        [
            "test_a.py::TestIn::test_method?1? PASSED*",
            "test_a.py::TestIn::test_method?2? FAILED*",
            "*assert 2 == 1*",
            "said 2 told",
            "the process of this test ended with status 7*",
            "*takes keyword arguments only*",
            "there is no GPU profile `h300`*",
        ],
        consecutive=False,
    )


def test_a_run_that_asks_for_none_imports_no_torch(pytester):
    pytester.makepyfile("def test_it():\n    import sys\n    assert 'torch' not in sys.modules")
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
