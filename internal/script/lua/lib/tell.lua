-- tell publishes a message on a channel that may be in another slot than the
-- keys. In this case only PUBLISH reaches it. An error is ignored, since the
-- change is made even if the user may not publish. It must be the last command:
-- after it, Redis 8.0 does not find the keys of a slot that is being moved.
local function tell(publish, channel, message)
  local heard = redis.pcall(publish, channel, message)
  if type(heard) == 'table' and publish ~= 'PUBLISH' then redis.pcall('PUBLISH', channel, message) end
end
