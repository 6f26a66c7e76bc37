"""The plugin by which OpenCode, which runs no hook commands, calls `signoff hook opencode` before each tool.

OpenCode loads each file in `.opencode/plugin`. What `tool.execute.before` throws is the result of the call, which is
not made. https://opencode.ai/docs/plugins
"""

import json
import re

_SPARE_SECONDS = 60
"""Seconds by which the limit of the plugin exceeds that of signoff: a busy machine needs time to start it."""
_COMMAND = re.compile(r'^const COMMAND = (".*")$', re.MULTILINE)
_TEXT = """\
// Has each edit of OpenCode wait in signoff until the user has decided. `signoff doors remove opencode` takes it out.
import { spawn } from "node:child_process"

const COMMAND = %s
const SECONDS = %d

function ask(payload) {
  return new Promise((resolve) => {
    const child = spawn("sh", ["-c", COMMAND], { cwd: payload.cwd, detached: true })
    const said = { stdout: "", stderr: "" }
    // A hook without an answer is a denial, also if it has ended and a program that it started holds its output open.
    const timer = setTimeout(() => {
      const stderr = `Denied, and nothing was written: signoff's hook did not answer within ${SECONDS} seconds.`
      resolve({ code: 2, stdout: "", stderr })
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {
        // It has ended.
      }
    }, SECONDS * 1000)
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8").on("data", (piece) => (said[name] += piece))
    }
    const end = (answer) => {
      clearTimeout(timer)
      resolve(answer)
    }
    child.on("error", (error) => end({ code: 2, stdout: "", stderr: String(error) }))
    child.on("close", (code) => end({ code, ...said }))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

export const Signoff = async ({ client, directory }) => {
  const prompts = new Map()

  // The session that the user talks to: what its subagents do belongs to its turn.
  async function root(id) {
    const { data } = await client.session.get({ path: { id } })
    return data?.parentID ? root(data.parentID) : id
  }

  // The response that made the call, and the prompt in a session that was begun before this file was loaded.
  async function found(id, call) {
    const { data } = await client.session.messages({ path: { id } })
    const isOf = (message) => message.parts.some((part) => part.callID === call)
    return data?.findLast(isOf)?.info
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      try {
        if ((await root(sessionID)) !== sessionID) return
        prompts.set(sessionID, message.id)
        const event = { hook_event_name: "UserPromptSubmit", session_id: sessionID, prompt_id: message.id }
        const { stdout } = await ask({ ...event, cwd: directory })
        const text = stdout && JSON.parse(stdout).hookSpecificOutput?.additionalContext
        const last = parts.at(-1)
        if (text && last) {
          const id = last.id.slice(0, -14) + "z".repeat(14)
          parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
        }
      } catch {
        // Nothing is at stake before a prompt.
      }
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const session = await root(sessionID)
      const response = await found(sessionID, callID)
      const { code, stderr } = await ask({
        hook_event_name: "PreToolUse",
        session_id: session,
        prompt_id: prompts.get(session) ?? (session === sessionID ? response?.parentID : "") ?? "",
        response_id: response?.id ?? "",
        model: response?.modelID ?? "",
        cwd: directory,
        tool_name: tool,
        tool_input: args,
        tool_use_id: callID,
      })
      if (code !== 0) throw new Error(stderr.trim() || "Denied by signoff.")
    },
  }
}
"""


def plugin_text(command: str, longest: int) -> str:
    """Return the plugin.

    Args:
        command: The command line that it runs before each tool and each prompt.
        longest: Seconds that signoff may take for an answer; the plugin denies a call a minute later.
    """
    return _TEXT % (json.dumps(command), longest + _SPARE_SECONDS)


def plugin_command(text: str) -> str:
    """Return the command line that a plugin runs; empty if it is not a plugin of signoff's."""
    found = _COMMAND.search(text)
    return str(json.loads(found[1])) if found else ""
