import { Navigate, useRouter } from "@tanstack/react-router";
import { useState } from "react";

/** Leads to the sign-in, and from there back to the page that was asked for. */
export function ToSignIn() {
  const router = useRouter();
  // Read once: while the sign-in loads, the address is its own already.
  const [from] = useState(() => router.state.location.href);
  return <Navigate to="/sign-in" search={{ from }} replace />;
}
