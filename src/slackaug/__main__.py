"""The process of the command line: Ctrl-C is answered before anything is loaded, and until it has ended."""

from . import exits


def main() -> None:
    with exits.alone():
        from .cli import main as command_line

        command_line()


if __name__ == "__main__":
    main()
