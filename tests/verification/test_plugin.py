"""``pytest --dp-audit`` in a session of its own."""

import os
import subprocess
import sys

import pytest

# Sessions run in this process, and numpy cannot be loaded a second time after a session has unloaded it.
from ledgerwood.verification import decorator, strategies  # noqa: F401

pytest_plugins = ["pytester"]

MODULE = """
from fractions import Fraction
from ledgerwood.accounting import PureDP
from ledgerwood.verification import verify_mechanism
from ledgerwood.verification.strategies import score_pairs

def distribution(scores, base):
    weights = [Fraction(base) ** int(s) for s in scores]
    return {i: w / sum(weights) for i, w in enumerate(weights)}

def integers(pair):
    return all(s.denominator == 1 for side in pair for s in side)

pairs = score_pairs(k=(2, 4), range=2).filter(integers)

@verify_mechanism(claim=PureDP(1.3863), pairs=pairs)
def good(scores):
    return distribution(scores, 2)

@verify_mechanism(claim=PureDP(1.0), pairs=pairs)
def bad(scores):
    return distribution(scores, 2)

def test_ordinary():
    assert True
"""


@pytest.fixture
def session(pytester, request):
    pytester.makepyfile(test_mechanisms=MODULE)
    known = request.config.pluginmanager.hasplugin("ledgerwood")
    load = [] if known else ["-p", "ledgerwood._pytest_plugin"]
    return lambda *arguments: pytester.runpytest("-p", "no:cacheprovider", *load, *arguments)


def test_without_the_option_mechanisms_are_left_alone(session):
    session().assert_outcomes(passed=1)


def test_with_the_option_each_mechanism_is_a_test_and_the_broken_one_fails(session):
    result = session("--dp-audit", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*good*dp-audit*PASSED*", "*bad*dp-audit*FAILED*"])
    result.stdout.fnmatch_lines(["bad: PureDP(epsilon=1.0) is violated at this pair*", "*first  = [*", "*second = [*"])
    assert "Traceback" not in result.stdout.str()


def test_an_error_inside_a_mechanism_keeps_its_traceback(session, pytester):
    pytester.makepyfile(
        test_mechanisms="""
        from ledgerwood.accounting import PureDP
        from ledgerwood.verification import verify_mechanism

        @verify_mechanism(claim=PureDP(1.0), pairs=[(0, 1)])
        def raises(data):
            raise RuntimeError("the mechanism is unwell")
        """
    )
    result = session("--dp-audit")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: the mechanism is unwell*"])


def test_an_object_that_refuses_to_be_looked_at_is_no_mechanism(session, pytester):
    """A proxy of a web framework, bound outside a request, once ended the collection."""
    pytester.makepyfile(
        test_mechanisms="""
        class Proxy:
            def __getattr__(self, name):
                if name == "__dp_verification__":
                    raise RuntimeError("outside of a request")
                raise AttributeError(name)

        request = Proxy()

        def test_ordinary():
            assert True
        """
    )
    session("--dp-audit").assert_outcomes(passed=1)


def test_a_static_method_of_a_test_class_is_a_mechanism_and_a_searched_pair_is_named(session, pytester):
    pytester.makepyfile(
        test_mechanisms="""
        from ledgerwood.accounting import PureDP
        from ledgerwood.verification import verify_mechanism

        class TestMine:
            @staticmethod
            @verify_mechanism(claim=PureDP(0.1), pairs=[(0, 1)])
            def flip(bit):
                return {bit: 0.75, 1 - bit: 0.25}

        @verify_mechanism(claim=PureDP(1.0), method="audit", schema={"queries": 2}, samples=1000, seed=1)
        def exact_sum(data, rng):
            return int(sum(data) + rng.integers(2))
        """
    )
    result = session("--dp-audit")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*flip*violated at this pair*", "exact_sum: violation*", "*pair (*) / array(*"])
    assert "None" not in result.stdout.str()


@pytest.mark.parametrize(("option", "loaded"), [([], False), (["--dp-audit"], True)])
def test_a_plain_run_imports_nothing_of_the_verifier(tmp_path, option, loaded):
    """Every pytest run on the machine loads the plug-in; only those that ask for audits pay for them."""
    (tmp_path / "test_other_project.py").write_text(
        "import sys\n"
        "def test_modules():\n"
        f"    assert ('ledgerwood.verification' in sys.modules) == {loaded}\n"
        f"    assert {loaded} or not any(name == 'numpy' or name.startswith('ledgerwood.a') for name in sys.modules)\n"
    )
    plugins = ["-p", "no:cacheprovider", "-p", "ledgerwood._pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *option, str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plug-ins may import what they like
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("absent", ["hypothesis", "mpmath"])
def test_without_an_optional_package_the_error_says_what_to_install(absent):
    """In a process of its own, where the package cannot be found."""
    code = f"import sys; sys.modules[{absent!r}] = None; from ledgerwood.verification import verify_mechanism"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "MissingDependency: " in found.stderr and "ledgerwood[verification]" in found.stderr
    assert absent in found.stderr.splitlines()[-1]
