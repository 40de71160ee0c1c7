"""Reports of estimates and controls: HTML pages and plots."""
