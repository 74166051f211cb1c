local ok, answer = pcall(decide)
if ok then return answer end
return { 9, tostring(answer) }
