"""`floodmark doctor`: whether floodmark works here, in one screen to paste into an issue."""
