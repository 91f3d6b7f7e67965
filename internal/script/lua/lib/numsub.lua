-- numsub returns how many clients listen on channels: name, number, ... It returns an error if the user may not see that.
local function numsub(publish, ...)
  if string.lower(publish) == 'spublish' then return redis.pcall('pubsub', 'shardnumsub', ...) end
  return redis.pcall('pubsub', 'numsub', ...)
end
