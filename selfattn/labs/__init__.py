"""The labs: exercises that a learner solves in a file of their own and has checked.

One source for each: its solution, a script in `snippets`. The comment at the top of a section
poses the step, the code below it solves it, and the lines it prints, `label: values`, are the items
that are checked. From it come the page, the starter file, the notebooks and the right answers.
"""
