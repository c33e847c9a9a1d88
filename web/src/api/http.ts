// Answers of a server, at addresses below the page's own.

import type { Answer, Path, Query } from "./questions";
import { questionText } from "./questions";
import { ApiError, type Follower, isCancelled, type Source } from "./source";
import type { Grown, Problem } from "./types.gen";

export class HttpSource implements Source {
  readonly isStored = false;

  async ask<P extends Path>(path: P, query: Query<P>, signal?: AbortSignal): Promise<Answer<P>> {
    const response = await this.get(`api/${questionText(path, query)}`, signal);
    if (!response.ok) throw await problem(response);
    return (await response.json()) as Answer<P>;
  }

  follow(listener: Follower): () => void {
    const events = new EventSource("api/follow");
    events.addEventListener("grown", (event) => {
      listener.grown(JSON.parse((event as MessageEvent<string>).data) as Grown);
    });
    events.onopen = () => listener.connected(true);
    events.onerror = () => listener.connected(false);
    events.addEventListener("ended", () => {
      events.close();
      listener.ended();
    });
    return () => events.close();
  }

  private async get(address: string, signal: AbortSignal | undefined): Promise<Response> {
    try {
      return await fetch(address, signal ? { signal } : {});
    } catch (error) {
      if (isCancelled(error)) throw error;
      throw new ApiError(
        "`floodmark view` does not answer",
        "start it again, and open the address that it prints",
      );
    }
  }
}

async function problem(response: Response): Promise<ApiError> {
  try {
    const { error, hint } = (await response.json()) as Problem;
    return new ApiError(error, hint);
  } catch {
    return new ApiError(`the server answered with status ${response.status}`);
  }
}
