-- tell publishes a message on a channel that may live in another slot than the
-- keys, where only PUBLISH reaches it. What it tells of is done, whether anybody
-- may be told or not.
local function tell(publish, channel, message)
  local heard = redis.pcall(publish, channel, message)
  if type(heard) == 'table' and publish ~= 'PUBLISH' then redis.pcall('PUBLISH', channel, message) end
end
