"""Estimates from videos of scenes that differ from the fitted one."""
