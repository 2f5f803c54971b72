"""The adapter of CrewAI: call a tool, and print the text that its model would be sent."""

import json
import os
import sys

from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

call, command, *arguments = sys.argv[1:]
server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
with MCPServerAdapter(server, connect_timeout=60) as tools:
    for name, given in json.loads(call):
        print(json.dumps(str(tools[name].run(**given))))
