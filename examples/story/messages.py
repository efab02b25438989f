"""What the two agents are asked to do, in words for any model, and the names of what they share."""

from __future__ import annotations

RESEARCHER = "researcher"
WRITER = "writer"
TEAM = "bees"
SOURCE = "hives.csv"
FINDINGS = "bees/findings"
DATA = "bees/hives.csv"
ARTICLE = "bees/article.md"
TOPIC = "bees"
DONE = "article-1"
"""The id of the message that says it is done: sent again, it is the same message."""

WRITER_TASK = f"""\
You are the writer. Write a short article about the honey of this summer.
1. Read {FINDINGS} on the blackboard, and get the artifact {DATA} as {SOURCE}; read it too.
2. Ask the agent {RESEARCHER} the one question that the findings leave open.
3. Write article.md, and save it as the artifact {ARTICLE}.
4. Publish {{"article": "{ARTICLE}", "version": <its version>}} to the topic {TOPIC}, with the id {DONE}."""

RESEARCHER_TASK = f"""\
You are the researcher. Find out which meadow gave the most honey.
1. Write {{"state": "in work"}} to {FINDINGS} on the blackboard, only if there is no such entry.
2. Read {SOURCE} in your workspace: a hive's honey is its weight in July less that in May.
3. Write the findings in the place of the first value, only if it still has the version that you wrote:
   {{"best_meadow": ..., "kg_by_meadow": {{...}}}}, the average kilograms of a hive in each meadow.
4. Save {SOURCE} as the artifact {DATA}.
5. Hand off to the agent {WRITER}, word for word:
---
{WRITER_TASK}
---"""
