import { CircleUser } from "lucide-react";

import { signOut, type Me } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Menu } from "@/parts/Menu";
import { wordsOf } from "@/parts/State";
import { useToast } from "@/parts/Toast";
import { setTheme, useTheme } from "@/shell/theme";

/** Who is signed in, the theme, and the way out. */
export function PersonMenu({ me }: { me: Me }) {
  const theme = useTheme();
  const showToast = useToast();
  const leave = () => {
    signOut().catch((error: unknown) => showToast({ title: wordsOf(error), tone: "bad" }));
  };
  const label = (name: string, isChosen: boolean) => (isChosen ? `${name} ✓` : name);
  return (
    <Menu
      trigger={
        <Button look="quiet" aria-label={`${messages.shell.person}: ${me.principal}`}>
          <CircleUser aria-hidden size={18} />
          <span>{me.principal}</span>
        </Button>
      }
      label={`${me.principal} (${me.roles.join(", ")})`}
      items={[
        {
          label: label(messages.shell.themeSystem, theme === "system"),
          onSelect: () => setTheme("system"),
        },
        {
          label: label(messages.shell.themeLight, theme === "light"),
          onSelect: () => setTheme("light"),
        },
        {
          label: label(messages.shell.themeDark, theme === "dark"),
          onSelect: () => setTheme("dark"),
        },
        ...(me.credential === "sign_in"
          ? [{ label: messages.shell.signOut, onSelect: leave }]
          : []),
      ]}
    />
  );
}
