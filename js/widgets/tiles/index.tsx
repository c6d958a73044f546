export default {render(){}, traits:[]};
