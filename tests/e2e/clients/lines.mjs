// What the TypeScript clients share: commands in, answers and events out. Imports no SDK: there are two.

import { createInterface } from "node:readline";

export const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

export const ANSWERS = {
  "elicitation/create": { action: "accept", content: { answer: "forty-two" } },
  "sampling/createMessage": { role: "assistant", content: { type: "text", text: "a model's words" }, model: "test" },
  "roots/list": { roots: [{ uri: "file:///harbour" }] },
};

export const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };

/** What a client answers to a question of that method. */
export const answering = (method) => async (request) => {
  say({ event: "asked", method, params: request.params ?? null });
  return ANSWERS[method];
};

export const notified = async ({ method, params }) => say({ event: "notification", method, params });

/** The whole program: connect, serve, close. `connect` gives one SDK's client, connected. */
export function run(connect) {
  const input = createInterface({ input: process.stdin });
  const running = new Map(); // id of a call → its AbortController
  let connection;

  const commands = {
    async connect(command) {
      connection = await connect(command);
      return connection.described();
    },

    async call({ id, tool, arguments: given = {}, progress }) {
      const controller = new AbortController();
      running.set(id, controller);
      const options = { signal: controller.signal, timeout: 600_000 };
      if (progress) {
        options.onprogress = (report) =>
          say({ event: "progress", call: id, progress: report.progress, total: report.total ?? null });
      }
      return connection.call({ name: tool, arguments: given }, options);
    },

    async cancel({ call }) {
      running.get(call).abort("given up");
    },

    async list_tools() {
      return (await connection.listTools()).tools.map((tool) => tool.name);
    },

    async set_level({ level }) {
      await connection.setLevel(level);
    },

    async subscribe({ uri }) {
      await connection.subscribe(uri);
    },

    async close() {
      await connection.close();
      input.close();
    },
  };

  input.on("line", async (line) => {
    const command = JSON.parse(line);
    try {
      say({ id: command.id, result: (await commands[command.do](command)) ?? null });
    } catch (error) {
      const code = Number.isInteger(error?.code) ? error.code : null;
      say({ id: command.id, error: { code, message: String(error?.message ?? error), data: error?.data ?? null } });
    }
  });
}
