"""What a team looks at before it ships: declared settings against what traces show, answers to
findings, the release checklist, and the gate that compares a release with a frozen baseline.
"""
