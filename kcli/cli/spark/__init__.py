"""What the commands of `kcli spark` share: common options, the session, the dry run, progress, failures."""
