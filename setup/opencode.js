// Hands mail of the message bus (ackbus) over to the agents of opencode.
// `bus setup opencode` made this file and renews it; with --remove it takes it away.

import { execFile } from "node:child_process"

const [bus, ...options] = COMMAND
const isWoken = IS_WOKEN // by interactive mail, while it is idle

export const AckbusPlugin = async ({ client, directory }) => {
  const sessions = new Map() // those of agents that have mail, by id: not of sub-agents

  let idle // the session that was idle last
  let isWaiting = false

  const run = (words, input, timeout = 10_000) =>
    new Promise((resolve, reject) => {
      const done = (error, said) => (error ? reject(error) : resolve(said))
      const hook = execFile(bus, words, { cwd: directory, timeout }, done)
      hook.stdin.on("error", () => {}) // it may have ended before it read
      hook.stdin.end(input)
    })

  // Returns what `bus hook` says to an event: a text, or nothing. In trouble the agent goes on.
  const ask = async (event, told = {}, timeout) => {
    try {
      const words = ["hook", event, "opencode", ...options]
      const said = await run(words, JSON.stringify(told), timeout)
      return said ? JSON.parse(said).text : undefined
    } catch {
      return undefined
    }
  }

  const isSubAgent = async (id) => (await client.session.get({ path: { id } })).data?.parentID

  const prompt = async (id, text) => {
    const { agent, model } = sessions.get(id)
    const body = { agent, model, parts: [{ type: "text", text }] }
    await client.session.prompt({ path: { id }, body })
  }

  // Waits for mail, as long as it takes: once for all sessions.
  const waitForMail = async () => {
    if (!isWoken || isWaiting) return
    isWaiting = true
    const text = await ask("wait", {}, 0)
    isWaiting = false
    if (text) await prompt(idle, text)
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const { agent, model } = message
      const known = sessions.get(sessionID)
      if (!known && (await isSubAgent(sessionID))) return
      sessions.set(sessionID, { ...known, agent, model, isEnded: false })
      // The process has one name on the bus: its first session may have had it before.
      const told = sessions.size === 1 ? { session_id: sessionID, source: "resume" } : {}
      const text = known ? undefined : await ask("start", told)
      if (!text || !parts.length) return
      const id = `${parts.at(-1).id}_ackbus` // parts are in the order of their ids
      parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },

    "tool.execute.after": async ({ sessionID }, result) => {
      const text = sessions.has(sessionID) ? await ask("tool") : undefined
      if (!text) return
      if (result.content) result.content.push({ type: "text", text }) // of an MCP server
      else result.output += `\n\n${text}`
    },

    event: async ({ event: { type, properties } }) => {
      const id = properties.sessionID ?? properties.info?.sessionID
      const session = sessions.get(id)
      if (!session) return
      const error = properties.info?.error ?? properties.error // by a failure, or by somebody
      if (error) session.isEnded = true
      if (type === "session.compacted") await ask("compact")
      if (type !== "session.idle" || session.isEnded) return
      const text = await ask("stop", { stop_hook_active: session.goesOn })
      session.goesOn = Boolean(text)
      if (text) return prompt(id, text)
      idle = id
      waitForMail()
    },
  }
}
