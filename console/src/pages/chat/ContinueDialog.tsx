import { useState } from "react";

import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { continueCommands } from "@/pages/chat/commands";
import { CommandLine } from "@/pages/chat/NoAgent";
import { closeSession } from "@/pages/chat/prompts";
import { Button } from "@/parts/Button";
import { Dialog } from "@/parts/Dialog";
import { wordsOf } from "@/parts/State";

/** How the same session goes on in a terminal or an editor. */
export function ContinueDialog({
  sessionId,
  mayClose,
  open,
  onClose,
}: {
  sessionId: string;
  /** Whether the session can be let go of now. */
  mayClose: boolean;
  open: boolean;
  onClose: () => void;
}) {
  const commands = continueCommands(window.location.origin, sessionId);
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={messages.chat.continueTitle}
      description={messages.chat.continueLead}
      size="wide"
    >
      <div className={styles.ways}>
        <h3>{messages.chat.inTerminal}</h3>
        <CommandLine text={commands.terminal} />
        <p className={styles.hint}>{messages.chat.inTerminalHint}</p>
        <h3>{messages.chat.inTerminalResume}</h3>
        <CommandLine text={commands.resume} />
        <h3>{messages.chat.withoutServer}</h3>
        <p className={styles.hint}>{messages.chat.withoutServerHint}</p>
        <LetGo sessionId={sessionId} mayClose={mayClose} />
        <CommandLine text={commands.withoutServer} />
        <p className={styles.hint}>{messages.chat.inEditorHint(sessionId)}</p>
        <CommandLine text={commands.editor} />
      </div>
    </Dialog>
  );
}

function LetGo({ sessionId, mayClose }: { sessionId: string; mayClose: boolean }) {
  const [fault, setFault] = useState<unknown>(null);
  if (!mayClose) return null;
  return (
    <p>
      <Button size="small" onClick={() => void closeSession(sessionId).catch(setFault)}>
        {messages.chat.letGo}
      </Button>
      {fault !== null && <span className={styles.fault}> {wordsOf(fault)}</span>}
    </p>
  );
}
