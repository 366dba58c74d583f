"""Puts the libraries that were built (scripts/build) into the wheel: libtsc_api.so and the modules beside it."""
import os
import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

ROOT = pathlib.Path(__file__).resolve().parent.parent


def built_folder():
    given = os.environ.get("TSC_BUILD")
    found = [pathlib.Path(given)] if given else sorted(ROOT.glob("build/*"))
    for build in [ROOT / "build" / "release"] * (not given) + found:
        if (build / "lib" / "tsc" / "libtsc_api.so").exists():
            return build / "lib" / "tsc"
    return None


class BuildWithLibraries(build_py):
    def run(self):
        super().run()
        folder = built_folder()
        if folder is None:
            print("note: libtsc_api.so is not built; the package will look for it in $TSC_LIBRARY")
            return
        to = pathlib.Path(self.build_lib) / "tsc" / "lib"
        to.mkdir(parents=True, exist_ok=True)
        for library in folder.glob("*.so"):
            shutil.copy2(library, to / library.name)


class Binary(Distribution):
    def has_ext_modules(self):
        return built_folder() is not None


try:
    from wheel.bdist_wheel import bdist_wheel

    class AnyPython(bdist_wheel):
        """The library is reached through ctypes: one wheel serves every Python of the platform."""

        def get_tag(self):
            _, _, platform = super().get_tag()
            return "py3", "none", platform

    commands = {"build_py": BuildWithLibraries, "bdist_wheel": AnyPython}
except ImportError:
    commands = {"build_py": BuildWithLibraries}

setup(cmdclass=commands, distclass=Binary)
