import { useCallback, useEffect, useReducer, useRef } from "react";

import {
  closeSession,
  followCall,
  newCallId,
  nextState,
  openSession,
  stopCall,
  type CallPlace,
  type RunState,
} from "./run";

export interface Run {
  state: RunState;
  /** Make a call with these arguments, in a session of its own. */
  start: (values: Record<string, unknown>) => void;
  /** Go on with a call that waits or waited. */
  takeUp: (place: CallPlace) => void;
  stop: () => void;
  reset: () => void;
}

const seconds = () => Date.now() / 1000;

/** One call at a time of a tool. Leaving the page leaves the call to itself. */
export function useRun(tool: string, toolId: string, onChange: () => void): Run {
  const [state, dispatch] = useReducer(nextState, { phase: "idle" });
  const following = useRef<AbortController | null>(null);

  const follow = useCallback(
    async (place: CallPlace, values: Record<string, unknown> | undefined) => {
      const controller = new AbortController();
      following.current = controller;
      dispatch({ type: "begin", place, at: seconds() });
      try {
        const result = await followCall({
          place,
          arguments: values,
          signal: controller.signal,
          onEvent: (event) => dispatch({ type: "event", event }),
          onLost: () => dispatch({ type: "lost" }),
        });
        dispatch({ type: "result", result, at: seconds() });
        if (result.status !== "waiting") await closeSession(place.sessionId);
      } catch (error) {
        if (!controller.signal.aborted) dispatch({ type: "refused", error });
      }
      onChange();
    },
    [onChange],
  );

  const start = useCallback(
    (values: Record<string, unknown>) => {
      dispatch({ type: "open" });
      openSession(toolId).then(
        (sessionId) => follow({ sessionId, callId: newCallId(), tool }, values),
        (error: unknown) => dispatch({ type: "refused", error }),
      );
    },
    [follow, tool, toolId],
  );

  const takeUp = useCallback((place: CallPlace) => void follow(place, undefined), [follow]);

  const place = "place" in state ? state.place : null;
  const stop = useCallback(() => {
    if (place === null) return;
    // A call that waits has nobody who follows it: asking again tells what became of it.
    stopCall(place).then(
      () => (state.phase === "waiting" ? follow(place, undefined) : undefined),
      (error: unknown) => dispatch({ type: "refused", error }),
    );
  }, [follow, place, state.phase]);

  const reset = useCallback(() => dispatch({ type: "reset" }), []);
  useEffect(() => () => following.current?.abort(), []);
  return { state, start, takeUp, stop, reset };
}
