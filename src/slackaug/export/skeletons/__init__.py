"""What exported files are cut from: real code, checked and tested here; the numbers are filled in."""
