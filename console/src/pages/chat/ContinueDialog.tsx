import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { continueCommands } from "@/pages/chat/commands";
import { CommandLine } from "@/pages/chat/NoAgent";
import { Dialog } from "@/parts/Dialog";

/** How the same session goes on in a terminal or an editor. */
export function ContinueDialog({
  sessionId,
  open,
  onClose,
}: {
  sessionId: string;
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
        <h3>{messages.chat.inEditor}</h3>
        <CommandLine text={commands.editor} />
        <p className={styles.hint}>{messages.chat.inEditorHint(sessionId)}</p>
        <h3>{messages.chat.withoutServer}</h3>
        <CommandLine text={commands.withoutServer} />
        <p className={styles.hint}>{messages.chat.withoutServerHint}</p>
      </div>
    </Dialog>
  );
}
